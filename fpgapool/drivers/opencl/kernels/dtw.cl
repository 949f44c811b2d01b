// SPDX-License-Identifier: Apache-2.0

// Dynamic time warping. One work item compares one pair of series; the device
// must support double precision. Devices are little-endian.

#pragma OPENCL EXTENSION cl_khr_fp64 : enable
// Round as a CPU does.
#pragma OPENCL FP_CONTRACT OFF

static double sample(global const uchar *input, const ulong index,
                     const uint wide)
{
    if (wide)
        return ((global const double *)input)[index];
    return ((global const float *)input)[index];
}

// Each row of the matrix of smallest sums overwrites the previous row, from
// left to right. Cells outside the window are infinite.
kernel void dtw(global const uchar *input, global double *output,
                global double *rows, const uint length, const uint window,
                const uint wide, const ulong pairs)
{
    const ulong pair = get_global_id(0);

    if (pair >= pairs)
        return;

    global double *row = rows + pair * (length + 1);
    const ulong first = pair * 2 * length;
    const ulong second = first + length;

    for (uint j = 1; j <= length; j++)
        row[j] = INFINITY;
    row[0] = 0;
    for (uint i = 1; i <= length; i++) {
        const double value = sample(input, first + i - 1, wide);
        const uint low = i > window ? i - window : 1;
        const uint high = window < length - i ? i + window : length;
        double diagonal = row[low - 1];
        double left = INFINITY;

        row[low - 1] = INFINITY;
        for (uint j = low; j <= high; j++) {
            const double up = row[j];
            const double difference
                = value - sample(input, second + j - 1, wide);
            // This order of comparisons keeps NaN, as the library does.
            double least = diagonal;

            if (up < least)
                least = up;
            if (left < least)
                least = left;
            left = difference * difference + least;
            row[j] = left;
            diagonal = up;
        }
    }
    output[pair] = sqrt(row[length]);
}

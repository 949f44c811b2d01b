// SPDX-License-Identifier: Apache-2.0

// A step of k-means. A work item of the first kernel finds the centre of one
// record; a work item of the second kernel adds up one number of a block's
// result. The device must support double precision.

#pragma OPENCL EXTENSION cl_khr_fp64 : enable

enum { WITHIN_RECORD = 1 };

kernel void find(global const float *records, global const float *centres,
                 global uint *nearest, global double *squares,
                 global uint *report, const uint features, const uint count,
                 const ulong bytes)
{
    const ulong record_bytes = 4 * (ulong)features;
    const ulong number = get_global_id(0);

    if (number == 0 && bytes % record_bytes)
        report[0] = WITHIN_RECORD;
    if (number >= bytes / record_bytes)
        return;

    global const float *record = records + number * features;
    uint found = 0;
    double least = 0;

    for (uint row = 0; row < count; row++) {
        global const float *centre = centres + (ulong)row * features;
        double square = 0;

        for (uint i = 0; i < features; i++) {
            const double difference = (double)record[i] - centre[i];

            square += difference * difference;
        }
        // If a distance is NaN, the first such centre is the nearest.
        if (row == 0 || square < least || (isnan(square) && !isnan(least))) {
            found = row;
            least = square;
        }
    }
    nearest[number] = found;
    squares[number] = least;
}

kernel void add_up(global const float *records, global const uint *nearest,
                   global const double *squares, global double *output,
                   const uint features, const uint count,
                   const uint block_records, const ulong bytes)
{
    const ulong columns = (ulong)features + 1;
    const ulong inertia = count * columns;
    const ulong number = get_global_id(0);
    const ulong block = get_global_id(1);
    const ulong first = block * block_records;
    const ulong end
        = min(first + block_records, bytes / (4 * (ulong)features));
    const ulong row = number / columns;
    const ulong column = number % columns;
    double sum = 0;

    if (number > inertia)
        return;
    for (ulong i = first; i < end; i++) {
        if (number == inertia)
            sum += squares[i];
        else if (nearest[i] == row)
            sum += column == features ? 1 : records[i * features + column];
    }
    output[block * (inertia + 1) + number] = sum;
}

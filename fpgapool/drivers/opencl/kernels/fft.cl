// SPDX-License-Identifier: Apache-2.0

// Fourier transforms of frames of complex numbers. Each group of work items
// transforms one or more frames, one after the other. Devices are
// little-endian. Loops with barriers test their condition at the end, because
// PoCL compiles them in half the time.

static float2 product(const float2 a, const float2 b)
{
    return (float2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

static float2 conjugate(const float2 a)
{
    return (float2)(a.x, -a.y);
}

// A group transforms a row, whose length is a power of two, and returns the
// row with the result. In Stockham's algorithm, each pass goes from one row to
// the other, and the result is in order. A pass combines four numbers, but if
// the exponent is odd, the last pass combines two.
static global float2 *transformed(global float2 *from, global float2 *to,
                                  global const float2 *roots,
                                  const uint length)
{
    const uint first = get_local_id(0);
    const uint step = get_local_size(0);
    uint stride = 1;

    do {
        const uint left = length / stride;

        if (left >= 4) {
            const uint quarter = length / 4;
            // -i, or i in the inverse transform.
            const float turn = roots[quarter].y;

            for (uint t = first; t < quarter; t += step) {
                const uint q = t & (stride - 1);
                const uint p = t - q;
                const float2 a = from[t];
                const float2 b = from[t + quarter];
                const float2 c = from[t + 2 * quarter];
                const float2 d = from[t + 3 * quarter];
                const float2 even = a + c;
                const float2 odd = a - c;
                const float2 sum = b + d;
                const float2 difference
                    = (float2)(turn * (d.y - b.y), turn * (b.x - d.x));
                global float2 *place = to + q + 4 * p;

                place[0] = even + sum;
                place[stride] = product(odd + difference, roots[p]);
                place[2 * stride] = product(even - sum, roots[2 * p]);
                place[3 * stride] = product(odd - difference, roots[3 * p]);
            }
            stride *= 4;
        } else {
            const uint middle = length / 2;

            for (uint t = first; t < middle; t += step) {
                const float2 a = from[t];
                const float2 b = from[t + middle];

                to[t] = a + b;
                to[t + middle] = a - b;
            }
            if (length == 1 && first == 0)
                to[0] = from[0];
            stride *= 2;
        }
        barrier(CLK_GLOBAL_MEM_FENCE);

        global float2 *const done = to;

        to = from;
        from = done;
    } while (stride < length);
    return from;
}

// The plan is that of the preparer "fft-plan": four rows, each as long as the
// inner transform. Each group has two such rows of scratch memory.
kernel void fft(global const float2 *input, global float2 *output,
                global const float2 *plan, global float2 *scratch,
                const uint samples, const uint length, const ulong frames)
{
    global const float2 *roots = plan;
    global const float2 *before = plan + length;
    global const float2 *spectrum = plan + 2 * length;
    global const float2 *after = plan + 3 * length;
    global float2 *rows = scratch + (ulong)get_group_id(0) * 2 * length;
    const uint first = get_local_id(0);
    const uint step = get_local_size(0);
    const uint turns = length == samples ? 1 : 2;
    ulong frame = get_group_id(0);
    local uint is_lost;

    do {
        global const float2 *source = input + frame * samples;
        global float2 *target = output + frame * samples;
        global float2 *row = rows;

        for (uint i = first; i < length; i += step)
            row[i] = i < samples ? product(source[i], before[i])
                                 : (float2)(0, 0);
        barrier(CLK_GLOBAL_MEM_FENCE);
        uint turn = 0;

        // A convolution needs a second transform; conjugation makes it an
        // inverse one.
        do {
            row = transformed(row, row == rows ? rows + length : rows, roots,
                              length);
            if (turns == 2)
                for (uint i = first; i < length; i += step)
                    row[i] = conjugate(
                        turn ? row[i] : product(row[i], spectrum[i]));
            barrier(CLK_GLOBAL_MEM_FENCE);
        } while (++turn < turns);
        if (first == 0)
            is_lost = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = first; i < samples; i += step) {
            const float2 result = product(row[i], after[i]);

            target[i] = result;
            if (!isfinite(result.x) || !isfinite(result.y))
                atomic_or(&is_lost, 1u);
        }
        barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
        // How far an infinity spreads depends on the order of operations, so
        // the whole frame becomes NaN.
        if (is_lost)
            for (uint i = first; i < samples; i += step)
                target[i] = (float2)(NAN, NAN);
        barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
        frame += get_num_groups(0);
    } while (frame < frames);
}

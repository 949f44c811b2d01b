// SPDX-License-Identifier: Apache-2.0

/* Adds a number to each byte; 256 counts as 0. */
kernel void run(global const uchar *input, global uchar *output,
                const uint amount, const ulong length)
{
    const size_t i = get_global_id(0);

    if (i < length)
        output[i] = input[i] + (uchar)amount;
}

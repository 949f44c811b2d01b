// SPDX-License-Identifier: Apache-2.0

// Returns its input. One work item copies 16 bytes.

kernel void copy(global const uchar *input, global uchar *output,
                 const ulong length)
{
    const ulong start = (ulong)get_global_id(0) * 16;

    if (start + 16 <= length)
        vstore16(vload16(0, input + start), 0, output + start);
    else
        for (ulong i = start; i < length; i++)
            output[i] = input[i];
}

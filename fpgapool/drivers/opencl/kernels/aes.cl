// SPDX-License-Identifier: Apache-2.0

// AES in counter mode. One work item encrypts one block of 16 bytes; the first
// and the last block may be incomplete. Devices are little-endian: byte n of a
// column of the cipher's state is bits 8 n to 8 n + 7 of a number.

// Tables of the preparer "aes-encryption": for each byte the column of
// MixColumns' matrix times its substitution, then the round keys.
#define ROUND_KEYS 256

static uint reversed(const uint number)
{
    return as_uint(as_uchar4(number).wzyx);
}

static uint4 mixed(global const uint *tables, const uint4 a, const uint4 b,
                   const uint4 c, const uint4 d)
{
    uint4 result;

    result.x = tables[a.x & 0xff] ^ rotate(tables[b.x >> 8 & 0xff], 8u)
        ^ rotate(tables[c.x >> 16 & 0xff], 16u)
        ^ rotate(tables[d.x >> 24], 24u);
    result.y = tables[a.y & 0xff] ^ rotate(tables[b.y >> 8 & 0xff], 8u)
        ^ rotate(tables[c.y >> 16 & 0xff], 16u)
        ^ rotate(tables[d.y >> 24], 24u);
    result.z = tables[a.z & 0xff] ^ rotate(tables[b.z >> 8 & 0xff], 8u)
        ^ rotate(tables[c.z >> 16 & 0xff], 16u)
        ^ rotate(tables[d.z >> 24], 24u);
    result.w = tables[a.w & 0xff] ^ rotate(tables[b.w >> 8 & 0xff], 8u)
        ^ rotate(tables[c.w >> 16 & 0xff], 16u)
        ^ rotate(tables[d.w >> 24], 24u);
    return result;
}

static uint substituted(global const uint *tables, const uint a, const uint b,
                        const uint c, const uint d)
{
    return (tables[a & 0xff] >> 8 & 0xff)
        | (tables[b >> 8 & 0xff] >> 8 & 0xff) << 8
        | (tables[c >> 16 & 0xff] >> 8 & 0xff) << 16
        | (tables[d >> 24] >> 8 & 0xff) << 24;
}

static uint4 encrypted(global const uint *tables, const uint rounds,
                       const uint4 block)
{
    global const uint *keys = tables + ROUND_KEYS;
    uint4 s = block ^ vload4(0, keys);

    for (uint round = 1; round < rounds; round++)
        s = mixed(tables, s, s.yzwx, s.zwxy, s.wxyz) ^ vload4(round, keys);
    return (uint4)(substituted(tables, s.x, s.y, s.z, s.w),
                   substituted(tables, s.y, s.z, s.w, s.x),
                   substituted(tables, s.z, s.w, s.x, s.y),
                   substituted(tables, s.w, s.x, s.y, s.z))
        ^ vload4(rounds, keys);
}

kernel void aes_ctr(global const uchar *input, global uchar *output,
                    global const uint *tables, global const uint *iv,
                    const uint rounds, const ulong first_block,
                    const uint skipped, const ulong length)
{
    const ulong block = get_global_id(0);
    // The input lacks the first block's bytes before the offset.
    const ulong end = block * 16 + 16 - skipped;
    const ulong start = end < 16 ? 0 : end - 16;

    if (start >= length)
        return;

    // The counter is a big-endian number of 128 bits.
    const ulong low_iv = (ulong)reversed(iv[2]) << 32 | reversed(iv[3]);
    const ulong low = low_iv + first_block + block;
    const ulong high = ((ulong)reversed(iv[0]) << 32 | reversed(iv[1]))
        + (low < low_iv);
    const uint4 stream = encrypted(
        tables, rounds,
        (uint4)(reversed((uint)(high >> 32)), reversed((uint)high),
                reversed((uint)(low >> 32)), reversed((uint)low)));

    if (end >= 16 && end <= length) {
        vstore16(vload16(0, input + start) ^ as_uchar16(stream), 0,
                 output + start);
    } else {
        uchar bytes[16];

        vstore16(as_uchar16(stream), 0, bytes);
        for (ulong i = start; i < min(end, length); i++)
            output[i] = input[i] ^ bytes[i + 16 - end];
    }
}

// SPDX-License-Identifier: Apache-2.0

// AES decryption in cipher block chaining mode, with PKCS #7 padding. One work
// item decrypts one block. The last block so far may be padding, so it is kept
// in the state until more input arrives or the input ends. Devices are
// little-endian.

// Tables of the preparer "aes-decryption": for each byte the column of
// InvMixColumns' matrix times its inverse substitution, then the inverse
// substitutions, one byte each, then the round keys in the order of their use.
#define SUBSTITUTIONS 256
#define ROUND_KEYS (256 + 64)

// Blocks of the state: the last block of input, encrypted and decrypted.
#define CAME 0
#define KEPT 1

#define WRONG_PADDING 1

static uint column(global const uint *tables, const uint a, const uint b,
                   const uint c, const uint d)
{
    return tables[a & 0xff] ^ rotate(tables[b >> 8 & 0xff], 8u)
        ^ rotate(tables[c >> 16 & 0xff], 16u)
        ^ rotate(tables[d >> 24], 24u);
}

static uint substituted(global const uint *tables, const uint a, const uint b,
                        const uint c, const uint d)
{
    global const uchar *bytes = (global const uchar *)(tables + SUBSTITUTIONS);

    return bytes[a & 0xff] | (uint)bytes[b >> 8 & 0xff] << 8
        | (uint)bytes[c >> 16 & 0xff] << 16 | (uint)bytes[d >> 24] << 24;
}

static uint4 decrypted(global const uint *tables, const uint rounds,
                       const uint4 block)
{
    global const uint *keys = tables + ROUND_KEYS;
    uint4 s = block ^ vload4(0, keys);

    for (uint round = 1; round < rounds; round++)
        s = (uint4)(column(tables, s.x, s.w, s.z, s.y),
                    column(tables, s.y, s.x, s.w, s.z),
                    column(tables, s.z, s.y, s.x, s.w),
                    column(tables, s.w, s.z, s.y, s.x))
            ^ vload4(round, keys);
    return (uint4)(substituted(tables, s.x, s.w, s.z, s.y),
                   substituted(tables, s.y, s.x, s.w, s.z),
                   substituted(tables, s.z, s.y, s.x, s.w),
                   substituted(tables, s.w, s.z, s.y, s.x))
        ^ vload4(rounds, keys);
}

static uint4 chained(global const uint4 *input, global const uint4 *state,
                     global const uint *tables, const uint rounds,
                     const ulong block)
{
    const uint4 before = block ? input[block - 1] : state[CAME];

    return decrypted(tables, rounds, input[block]) ^ before;
}

kernel void aes_cbc_decrypt(global const uint4 *input, global uint4 *output,
                            global const uint4 *state,
                            global const uint *tables, const uint rounds,
                            const ulong blocks, const uint first)
{
    const ulong block = get_global_id(0);

    // Return the kept block; there is none before the first piece.
    if (block == 0 && !first)
        output[0] = state[KEPT];
    if (block + 1 < blocks)
        output[block + !first] = chained(input, state, tables, rounds, block);
}

// Runs as one work item, after all others have read the state.
kernel void aes_cbc_keep(global const uint4 *input, global uint4 *state,
                         global const uint *tables, const uint rounds,
                         const ulong blocks)
{
    state[KEPT] = chained(input, state, tables, rounds, blocks - 1);
    state[CAME] = input[blocks - 1];
}

// Runs as one work item. It reports a fault, or by how many bytes the output
// is shorter.
kernel void aes_cbc_finish(global uchar *output, global const uchar *state,
                           global uint *report, const uint first)
{
    global const uchar *kept = state + 16 * KEPT;
    const uint padding = kept[15];
    bool right = !first && 1 <= padding && padding <= 16;

    for (uint i = 0; right && i < padding; i++)
        right = kept[15 - i] == padding;
    if (!right) {
        report[0] = WRONG_PADDING;
        return;
    }
    for (uint i = 0; i < 16 - padding; i++)
        output[i] = kept[i];
    report[1] = padding;
}

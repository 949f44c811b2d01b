// SPDX-License-Identifier: Apache-2.0

// SHA-256 of the whole input, by one work item. Devices are little-endian.

constant uint CONSTANTS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2
};

// Only the input's last block may be incomplete; the state keeps its bytes
// until they are padded.
typedef struct {
    uint hash[8];
    ulong length;
    uchar rest[64];
} state_t;

static uint big_endian(global const uchar *bytes)
{
    return as_uint(vload4(0, bytes).wzyx);
}

static void compress(uint *hash, const uint *block)
{
    uint w[16], v[8];

    for (uint i = 0; i < 16; i++)
        w[i] = block[i];
    for (uint i = 0; i < 8; i++)
        v[i] = hash[i];
    for (uint i = 0; i < 64; i++) {
        if (i >= 16) {
            const uint a = w[(i + 1) & 15];
            const uint b = w[(i + 14) & 15];

            w[i & 15] += w[(i + 9) & 15]
                + (rotate(a, 25u) ^ rotate(a, 14u) ^ a >> 3)
                + (rotate(b, 15u) ^ rotate(b, 13u) ^ b >> 10);
        }
        const uint sum_e = rotate(v[4], 26u) ^ rotate(v[4], 21u)
            ^ rotate(v[4], 7u);
        const uint sum_a = rotate(v[0], 30u) ^ rotate(v[0], 19u)
            ^ rotate(v[0], 10u);
        const uint first = v[7] + sum_e + bitselect(v[6], v[5], v[4])
            + CONSTANTS[i] + w[i & 15];
        const uint second = sum_a
            + ((v[0] & v[1]) | (v[2] & (v[0] | v[1])));

        v[7] = v[6];
        v[6] = v[5];
        v[5] = v[4];
        v[4] = v[3] + first;
        v[3] = v[2];
        v[2] = v[1];
        v[1] = v[0];
        v[0] = first + second;
    }
    for (uint i = 0; i < 8; i++)
        hash[i] += v[i];
}

kernel void sha_update(global const uchar *input, global state_t *state,
                       const ulong offset, const ulong length)
{
    uint hash[8], block[16];
    ulong start;

    for (uint i = 0; i < 8; i++)
        hash[i] = state->hash[i];
    for (start = 0; start + 64 <= length; start += 64) {
        for (uint i = 0; i < 16; i++)
            block[i] = big_endian(input + start + 4 * i);
        compress(hash, block);
    }
    for (uint i = 0; i < 8; i++)
        state->hash[i] = hash[i];
    for (uint i = 0; start + i < length; i++)
        state->rest[i] = input[start + i];
    state->length = offset + length;
}

kernel void sha_finish(global uchar *output, global const state_t *state)
{
    const ulong bits = state->length * 8;
    const uint rest = state->length % 64;
    uint hash[8], block[16] = {0};

    for (uint i = 0; i < 8; i++)
        hash[i] = state->hash[i];
    for (uint i = 0; i < rest; i++)
        block[i / 4] |= (uint)state->rest[i] << (24 - 8 * (i % 4));
    block[rest / 4] |= 0x80u << (24 - 8 * (rest % 4));
    if (rest >= 56) {
        compress(hash, block);
        for (uint i = 0; i < 16; i++)
            block[i] = 0;
    }
    block[14] = bits >> 32;
    block[15] = bits;
    compress(hash, block);
    for (uint i = 0; i < 8; i++)
        vstore4(as_uchar4(hash[i]).wzyx, i, output);
}

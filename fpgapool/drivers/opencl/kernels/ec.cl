// SPDX-License-Identifier: Apache-2.0

// Erasure coding; records have the same format as in the software core.
// Devices are little-endian, records big-endian.

#define HEADER_BYTES 16
#define NO_RECORD 1
#define DAMAGED 2

// CRC-32 of IEEE 802.3 for each value of four bits.
constant uint CRC_TABLE[16] = {
    0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
    0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
    0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c
};

static uint crc32(global const uchar *data, const uint length)
{
    uint sum = ~0u;

    for (uint i = 0; i < length; i++) {
        sum ^= data[i];
        sum = sum >> 4 ^ CRC_TABLE[sum & 15];
        sum = sum >> 4 ^ CRC_TABLE[sum & 15];
    }
    return ~sum;
}

static uint big_endian(global const uchar *bytes)
{
    return as_uint(vload4(0, bytes).wzyx);
}

// Loads 16 bytes; bytes at or after the end become zeros.
static uchar16 load(global const uchar *data, const uint start,
                    const uint end)
{
    uchar bytes[16];

    if (start + 16 <= end)
        return vload16(0, data + start);
    for (uint i = 0; i < 16; i++)
        bytes[i] = start + i < end ? data[start + i] : 0;
    return vload16(0, bytes);
}

// Stores up to 16 bytes, but none at or after the end.
static void store(global uchar *data, const uint start, const uint end,
                  const uchar16 value)
{
    uchar bytes[16];

    if (start + 16 <= end) {
        vstore16(value, 0, data + start);
        return;
    }
    vstore16(value, 0, bytes);
    for (uint i = 0; start + i < end; i++)
        data[start + i] = bytes[i];
}

// Returns 16 bytes of the sum of k fragments, each times its factor. The data
// of the fragments ends at the limit; zeros follow.
static uchar16 combined(global const uchar *data, const uint fragment_bytes,
                        const uint limit, const uint start,
                        global const uchar *factors, const uint k)
{
    uchar16 sum = 0;

    // Horner's method, from the highest bit of all factors to the lowest.
    for (uint bit = 0x80; bit; bit >>= 1) {
        sum = (sum << (uchar16)1)
            ^ (sum >> (uchar16)7) * (uchar16)0x1d;
        for (uint j = 0; j < k; j++)
            if (factors[j] & bit) {
                const uint front = j * fragment_bytes;

                sum ^= load(data, front + start,
                            min(front + fragment_bytes, limit));
            }
    }
    return sum;
}

// A work item computes 16 bytes of a fragment.
kernel void ec_encode(global const uchar *input, global uchar *output,
                      global const uchar *factors, const uint k, const uint m,
                      const uint stripe_bytes, const ulong length)
{
    const uint start = get_global_id(0) * 16;
    const uint fragment = get_global_id(1);
    const ulong stripe = get_global_id(2);
    const uint whole_bytes = (stripe_bytes + k - 1) / k;
    const ulong record = stripe * (HEADER_BYTES + (k + m) * whole_bytes);
    const uint data_bytes = min((ulong)stripe_bytes,
                                length - stripe * stripe_bytes);
    const uint fragment_bytes = (data_bytes + k - 1) / k;
    global const uchar *data = input + stripe * stripe_bytes;
    const uint front = fragment * fragment_bytes;
    uchar16 value;

    if (start >= fragment_bytes)
        return;
    if (fragment < k)
        value = load(data, front + start,
                     min(front + fragment_bytes, data_bytes));
    else
        value = combined(data, fragment_bytes, data_bytes, start,
                         factors + (fragment - k) * k, k);
    store(output + record + HEADER_BYTES, front + start,
          front + fragment_bytes, value);
}

// A work item writes the header of a record.
kernel void ec_header(global const uchar *input, global uchar *output,
                      const uint k, const uint m, const uint stripe_bytes,
                      const ulong length)
{
    const ulong stripe = get_global_id(0);
    const uint whole_bytes = (stripe_bytes + k - 1) / k;
    const uint data_bytes = min((ulong)stripe_bytes,
                                length - stripe * stripe_bytes);
    const uint sum = crc32(input + stripe * stripe_bytes, data_bytes);
    global uchar *header
        = output + stripe * (HEADER_BYTES + (k + m) * whole_bytes);

    vstore8((uchar8)('F', 'P', 'E', 'C', 1, k, m, 0), 0, header);
    vstore4(as_uchar4(data_bytes).wzyx, 0, header + 8);
    vstore4(as_uchar4(sum).wzyx, 0, header + 12);
}

// Returns the length of a record's data, or 0 if the record is invalid. Only
// the last record may contain less than a stripe.
static uint data_in(global const uchar *record, const ulong length,
                    const uint k, const uint m, const uint present,
                    const uint stripe_bytes, const bool last)
{
    if (length < HEADER_BYTES || record[0] != 'F' || record[1] != 'P'
        || record[2] != 'E' || record[3] != 'C' || record[4] != 1
        || record[5] != k || record[6] != m || record[7] != 0)
        return 0;

    const uint data_bytes = big_endian(record + 8);

    if (data_bytes > stripe_bytes || (!last && data_bytes < stripe_bytes)
        || length != HEADER_BYTES + present * ((data_bytes + k - 1) / k))
        return 0;
    return data_bytes;
}

// A work item computes 16 bytes of a data fragment.
kernel void ec_decode(global const uchar *input, global uchar *output,
                      global const uchar *factors, const uint k, const uint m,
                      const uint present, const uint stripe_bytes,
                      const ulong length)
{
    const uint start = get_global_id(0) * 16;
    const uint fragment = get_global_id(1);
    const ulong stripe = get_global_id(2);
    const uint record_bytes
        = HEADER_BYTES + present * ((stripe_bytes + k - 1) / k);
    const ulong place = stripe * record_bytes;
    const bool last = stripe + 1 == get_global_size(2);
    global const uchar *record = input + place;
    const uint data_bytes
        = data_in(record, last ? length - place : record_bytes, k, m, present,
                  stripe_bytes, last);
    const uint fragment_bytes = (data_bytes + k - 1) / k;
    const uint front = fragment * fragment_bytes;

    if (start >= fragment_bytes)
        return;
    store(output + stripe * stripe_bytes, front + start,
          min(front + fragment_bytes, data_bytes),
          combined(record + HEADER_BYTES, fragment_bytes, k * fragment_bytes,
                   start, factors + fragment * k, k));
}

// A work item compares a record's data with its checksum. It reports a fault,
// or by how many bytes the output is shorter.
kernel void ec_verify(global const uchar *input, global const uchar *output,
                      global uint *report, const uint k, const uint m,
                      const uint present, const uint stripe_bytes,
                      const ulong length)
{
    const ulong stripe = get_global_id(0);
    const uint record_bytes
        = HEADER_BYTES + present * ((stripe_bytes + k - 1) / k);
    const ulong place = stripe * record_bytes;
    const bool last = stripe + 1 == get_global_size(0);
    global const uchar *record = input + place;
    const uint data_bytes
        = data_in(record, last ? length - place : record_bytes, k, m, present,
                  stripe_bytes, last);

    if (!data_bytes)
        atomic_max(report, NO_RECORD);
    else if (crc32(output + stripe * stripe_bytes, data_bytes)
             != big_endian(record + 12))
        atomic_max(report, DAMAGED);
    if (last)
        report[1] = stripe_bytes - data_bytes;
}

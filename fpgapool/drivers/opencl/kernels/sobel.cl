// SPDX-License-Identifier: Apache-2.0

// The Sobel operator on frames of 8-bit grey pixels. One work item computes
// one pixel.

#define WIDTH 640
#define HEIGHT 480

kernel void sobel(global const uchar *input, global uchar *output)
{
    const uint x = get_global_id(0);
    const uint y = get_global_id(1);
    const ulong frame = (ulong)get_global_id(2) * (WIDTH * HEIGHT);
    const ulong here = frame + y * WIDTH + x;
    uint sum = 0;

    if (0 < x && x < WIDTH - 1 && 0 < y && y < HEIGHT - 1) {
        global const uchar *above = input + here - WIDTH;
        global const uchar *at = input + here;
        global const uchar *below = input + here + WIDTH;
        const int across = (above[1] + 2 * at[1] + below[1])
            - (above[-1] + 2 * at[-1] + below[-1]);
        const int along = (below[-1] + 2 * below[0] + below[1])
            - (above[-1] + 2 * above[0] + above[1]);

        sum = min(255u, abs(across) + abs(along));
    }
    output[here] = sum;
}

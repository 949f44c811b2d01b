// SPDX-License-Identifier: Apache-2.0

// Logistic regression. A work item of the first kernel computes the errors of
// the weights for one record; a work item of the second kernel adds up one
// number of a block's result. The device must support double precision.

#pragma OPENCL EXTENSION cl_khr_fp64 : enable

enum { WITHIN_RECORD = 1, WRONG_LABEL = 2 };

static double score_of(global const float *features,
                       global const float *weights, const uint count)
{
    double score = 0;

    for (uint i = 0; i < count; i++)
        score += (double)features[i] * weights[i];
    return score;
}

// Computes for each record the errors of all labels, and the loss.
kernel void compare(global const float *records, global const float *weights,
                    global double *errors, global uint *report,
                    const uint features, const uint labels, const ulong bytes)
{
    const ulong record_bytes = 4 * ((ulong)features + 1);
    const ulong number = get_global_id(0);

    if (number == 0 && bytes % record_bytes)
        report[0] = WITHIN_RECORD;
    if (number >= bytes / record_bytes)
        return;

    global const float *record = records + number * (features + 1);
    global double *own = errors + number * ((ulong)labels + 1);
    const float label = record[0];

    record++;
    if (!(label >= 0 && label <= max(labels, 2u) - 1
          && label == floor(label))) {
        report[0] = WRONG_LABEL;
        return;
    }
    if (labels == 1) {
        const double score = score_of(record, weights, features);

        own[0] = (tanh(score / 2) + 1) / 2 - label;
        own[1] = fmax(score, 0.0) + log1p(exp(-fabs(score))) - label * score;
        return;
    }

    double highest = -INFINITY;
    double sum = 0;

    for (uint row = 0; row < labels; row++) {
        own[row] = score_of(record, weights + (ulong)row * features, features);
        highest = fmax(highest, own[row]);
    }

    const double score = own[(uint)label] - highest;

    for (uint row = 0; row < labels; row++) {
        own[row] = exp(own[row] - highest);
        sum += own[row];
    }
    for (uint row = 0; row < labels; row++)
        own[row] = own[row] / sum - (row == (uint)label);
    own[labels] = log(sum) - score;
}

kernel void add_up(global const float *records, global const double *errors,
                   global double *output, const uint features,
                   const uint labels, const uint block_records,
                   const ulong bytes)
{
    const ulong columns = (ulong)features + 1;
    const ulong gradient = (ulong)labels * features;
    const ulong number = get_global_id(0);
    const ulong block = get_global_id(1);
    const ulong first = block * block_records;
    const ulong end = min(first + block_records, bytes / (4 * columns));
    const ulong row = number == gradient ? labels : number / features;
    double sum = 0;

    if (number > gradient)
        return;
    for (ulong i = first; i < end; i++) {
        const double error = errors[i * (labels + 1) + row];

        if (number == gradient)
            sum += error;
        else
            sum += error * records[i * columns + 1 + number % features];
    }
    output[block * (gradient + 1) + number] = sum;
}

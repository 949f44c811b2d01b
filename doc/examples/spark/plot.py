# SPDX-License-Identifier: Apache-2.0

"""Draw the models that programs have learnt with and without the pool.

usage: plot.py LR_PLAIN LR_POOL KM_PLAIN KM_POOL PICTURE
"""

import sys

import matplotlib

matplotlib.use("Agg")

import numpy
from matplotlib import pyplot

*models, picture = sys.argv[1:]
lr_plain, lr_pool, km_plain, km_pool = map(numpy.load, models)
figure, axes = pyplot.subplots(2, 2, figsize=(9, 6), layout="constrained")
for ax, plain, pool, title in (
    (axes[0, 0], lr_plain, lr_pool, "Logistic regression"),
    (axes[1, 0], km_plain, km_pool, "K-means"),
):
    ax.plot(plain["losses"], color="#1f77b4", label="processor")
    ax.plot(pool["losses"], "o", color="#ff7f0e", ms=3, label="pool")
    ax.set(title=title, xlabel="step", ylabel="loss", yscale="log")
    ax.legend()
ax = axes[0, 1]
ax.step(range(30), lr_plain["model"], where="mid", color="#1f77b4")
ax.plot(lr_pool["model"], "o", color="#ff7f0e", ms=4)
ax.set(title="Weights", xlabel="feature", ylabel="weight")
rows = [
    numpy.hstack([one.reshape(8, 8) for one in learnt["model"]])
    for learnt in (km_plain, km_pool)
]
ax = axes[1, 1]
ax.imshow(numpy.vstack(rows), cmap="Greys")
ax.set(title="Centres", xticks=[], yticks=[3.5, 11.5])
ax.set_yticklabels(["processor", "pool"])
figure.savefig(picture, dpi=110)

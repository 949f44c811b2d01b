# SPDX-License-Identifier: Apache-2.0

"""Find clusters in scikit-learn's digits, and learn to read them."""

from sklearn import datasets

from fpgapool import ml

digits, names = datasets.load_digits(return_X_y=True)
clusters = ml.KMeans(10, random_state=0).fit(digits)
print(clusters.inertia_, clusters.n_iter_, clusters.labels_[:10])

reader = ml.LogisticRegression(max_iter=200).fit(digits / 16, names)
print(reader.score(digits / 16, names))

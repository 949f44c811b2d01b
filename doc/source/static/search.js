// SPDX-License-Identifier: Apache-2.0

// Hits of the search that lead to an entry of the index have an element
// without text. Sphinx then has no context to show, and its script fails.
// Show the beginning of the page instead.
if (typeof Search !== "undefined") {
  const summarize = Search.makeSearchSummary;
  Search.makeSearchSummary = (page, words, anchor) =>
    summarize(page, words, anchor) ?? summarize(page, words, "")
    ?? document.createElement("p");
}

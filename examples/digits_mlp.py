"""A classifier of handwritten digits: trained by scikit-learn, run by a kernel.

The network has one hidden layer: relu(x @ w1 + b1) @ w2 + b2.  Both products, the bias and the activation of a block of
images are one kernel; the last block is ragged.  The kernel's predictions must be scikit-learn's, on images that the
training has not seen.

    python examples/digits_mlp.py
"""

import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import pypto.language as pl

ROWS = 16  # images of a block
PIXELS, HIDDEN, CLASSES = 64, 64, 16  # the ten digits, in whole boxes of the matrix unit

N = pl.dynamic("N")


@pl.jit.incore
def forward(
    x: pl.Tensor[[N, PIXELS], pl.FP32],
    w1: pl.Tensor[[PIXELS, HIDDEN], pl.FP32],
    b1: pl.Tensor[[1, HIDDEN], pl.FP32],
    w2: pl.Tensor[[HIDDEN, CLASSES], pl.FP32],
    b2: pl.Tensor[[1, CLASSES], pl.FP32],
    logits: pl.Out[pl.Tensor[[N, CLASSES], pl.FP32]],
    row: pl.INDEX,
    rows: pl.INDEX,
):
    """The logits of `rows` images from `row` on."""
    block = pl.load(x, [row, 0], [ROWS, PIXELS], valid_shape=[rows, PIXELS], target_memory=pl.Mem.Mat)
    first = pl.load(w1, [0, 0], [PIXELS, HIDDEN], target_memory=pl.Mem.Mat)
    second = pl.load(w2, [0, 0], [HIDDEN, CLASSES], target_memory=pl.Mem.Mat)
    h = pl.matmul(block, first)
    h = pl.relu(pl.col_expand_add(h, pl.load(b1, [0, 0], [1, HIDDEN])))
    y = pl.col_expand_add(pl.matmul(h, second), pl.load(b2, [0, 0], [1, CLASSES]))
    return pl.store(y, [row, 0], logits)


@pl.jit
def classify(
    x: pl.Tensor[[N, PIXELS], pl.FP32],
    w1: pl.Tensor[[PIXELS, HIDDEN], pl.FP32],
    b1: pl.Tensor[[1, HIDDEN], pl.FP32],
    w2: pl.Tensor[[HIDDEN, CLASSES], pl.FP32],
    b2: pl.Tensor[[1, CLASSES], pl.FP32],
    logits: pl.Out[pl.Tensor[[N, CLASSES], pl.FP32]],
):
    n = pl.tensor.dim(x, 0)
    for k in pl.range(0, n, ROWS):
        logits = forward(x, w1, b1, w2, b2, logits, k, pl.min(ROWS, n - k))
    return logits


def main() -> None:
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(images / 16, labels, test_size=0.25, random_state=0)
    model = MLPClassifier((HIDDEN,), max_iter=1000, random_state=0).fit(train_x, train_y)
    w1, w2 = (w.astype(np.float32) for w in model.coefs_)
    b1, b2 = (b.astype(np.float32)[None] for b in model.intercepts_)
    more = ((0, 0), (0, CLASSES - w2.shape[1]))
    w2, b2 = np.pad(w2, more), np.pad(b2, more)

    x = test_x.astype(np.float32)
    logits = np.empty((len(x), CLASSES), np.float32)
    classify(x, w1, b1, w2, b2, logits)
    begin = time.perf_counter()
    classify(x, w1, b1, w2, b2, logits)
    took = time.perf_counter() - begin

    hidden = np.maximum(test_x @ model.coefs_[0] + model.intercepts_[0], 0)
    want = hidden @ model.coefs_[1] + model.intercepts_[1]
    error = np.abs(logits[:, :10] - want).max()
    found = logits[:, :10].argmax(1)
    same = (found == model.predict(test_x)).sum()
    print(f"{same} of {len(x)} predictions as scikit-learn's, {(found == test_y).mean():.1%} right; {took * 1e3:.2f} ms")
    print(f"largest error of a logit: {error:.1e}")
    assert same == len(x)
    assert error < 1e-4


if __name__ == "__main__":
    main()

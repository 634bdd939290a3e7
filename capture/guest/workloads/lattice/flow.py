# SPDX-License-Identifier: GPL-2.0-or-later
"""Flow round a disc by the lattice Boltzmann method (nine speeds, two dimensions), in NumPy."""

import numpy as np

WIDTH, HEIGHT, STEPS = 768, 512, 100
SPEEDS = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
BACK = (0, 3, 4, 1, 2, 7, 8, 5, 6)
WEIGHTS = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)

y, x = np.ogrid[:HEIGHT, :WIDTH]
disc = (x - WIDTH // 4) ** 2 + (y - HEIGHT // 2) ** 2 < (HEIGHT // 9) ** 2
flow = np.empty((9, HEIGHT, WIDTH))
for i, ((cx, _), w) in enumerate(zip(SPEEDS, WEIGHTS)):
    flow[i] = w * (1 + 3 * 0.1 * cx)
for _ in range(STEPS):
    density = flow.sum(axis=0)
    u = sum(cx * flow[i] for i, (cx, _) in enumerate(SPEEDS) if cx) / density
    v = sum(cy * flow[i] for i, (_, cy) in enumerate(SPEEDS) if cy) / density
    squares = 1.5 * (u * u + v * v)
    bounced = flow[:, disc][list(BACK)]
    for i, ((cx, cy), w) in enumerate(zip(SPEEDS, WEIGHTS)):
        along = 3 * (cx * u + cy * v)
        flow[i] += 1.7 * (w * density * (1 + along + 0.5 * along * along - squares) - flow[i])
    flow[:, disc] = bounced
    for i, (cx, cy) in enumerate(SPEEDS):
        flow[i] = np.roll(flow[i], (cy, cx), axis=(0, 1))

# SPDX-License-Identifier: GPL-2.0-or-later
# Runs once inside the unpacked guest with block devices, as root: nothing is wanted beside the packages.
:

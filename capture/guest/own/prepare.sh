# SPDX-License-Identifier: GPL-2.0-or-later
# Runs once inside the unpacked guest, as root: nothing is wanted beside the packages.
:

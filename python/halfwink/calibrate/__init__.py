"""Machine files that are made of what was measured."""

from __future__ import annotations

from halfwink.exports import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:
    from halfwink.calibrate.block import StorageCalibration, calibrate_storage
    from halfwink.calibrate.host import HostCalibration, calibrate_host

__all__ = [
    "HostCalibration",
    "StorageCalibration",
    "calibrate_host",
    "calibrate_storage",
]
#: Module of each name.
_HOMES = {
    "HostCalibration": "calibrate.host",
    "StorageCalibration": "calibrate.block",
    "calibrate_host": "calibrate.host",
    "calibrate_storage": "calibrate.block",
}
__getattr__ = lazily(__name__, _HOMES)

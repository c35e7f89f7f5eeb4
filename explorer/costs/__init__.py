"""How long operators take on a device: the catalogue of devices and the roofline estimate."""

from explorer.costs.devices import DEVICES, DeviceKind
from explorer.costs.roofline import dtype_of, estimate, label, stated_dtype

__all__ = ["DEVICES", "DeviceKind", "dtype_of", "estimate", "label", "stated_dtype"]

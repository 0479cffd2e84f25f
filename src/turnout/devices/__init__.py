"""Devices of clients: how long their queries and messages take, from which the clock of a run follows."""

from turnout.devices.devices import Devices
from turnout.devices.fleet import Fleet, Timing
from turnout.devices.spreads import Classes, LogNormal, Spread

__all__ = ["Classes", "Devices", "Fleet", "LogNormal", "Spread", "Timing"]

from .devices import Devices as Devices
from .fleet import Fleet as Fleet
from .fleet import Timing as Timing
from .spreads import Classes as Classes
from .spreads import LogNormal as LogNormal
from .spreads import Spread as Spread

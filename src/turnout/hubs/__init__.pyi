from .hubs import Hubs as Hubs
from .layout import Layout as Layout

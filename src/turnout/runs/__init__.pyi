from . import trackers as trackers

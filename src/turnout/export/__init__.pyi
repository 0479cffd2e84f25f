from .collab import nvflare as nvflare
from .map_reduce import MapReduce as MapReduce
from .map_reduce import drjax as drjax

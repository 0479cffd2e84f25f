from .collab import nvflare as nvflare
from .flower_app import flower as flower
from .map_reduce import MapReduce as MapReduce
from .map_reduce import drjax as drjax

"""The tiny problem as a module and a loss of PyTorch, in double precision."""

# pyright: basic, reportMissingImports=false
import contextlib
import sys

import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)


class Regression(torch.nn.Module):
    """Predictions and the parameters x, since the loss has a regulariser."""

    def __init__(self, start):
        super().__init__()
        self.x = torch.nn.Parameter(torch.tensor(start))

    def forward(self, features):
        return features @ self.x, self.x


def loss_of(mu):
    """Return the loss of what `Regression` returns: squared errors and (mu / 2) |x|^2."""

    def loss(found, targets):
        predictions, x = found
        return ((predictions - targets.reshape(-1)) ** 2).mean() / 2 + mu / 2 * (x @ x)

    return loss


def rows_of(vector, number):
    """Return features and targets of a client."""
    own = vector["problem"]["clients"][number]
    return torch.tensor(own["features"]), torch.tensor(own["targets"], dtype=torch.get_default_dtype())


def with_torchvision():
    """Import torchvision where its build is for another one of PyTorch, so that it lacks operators that nothing here calls."""
    with contextlib.suppress(ImportError):
        try:
            import torchvision  # noqa: F401
        except RuntimeError:
            for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
                del sys.modules[name]
            library = torch.library.Library("torchvision", "DEF")
            for name in ("nms", "qnms"):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            with_torchvision.library = library
            import torchvision  # noqa: F401

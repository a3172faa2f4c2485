"""Convolutional networks of the published rows, in plain torch.nn."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SqueezeAndExcitation(nn.Module):
    """A weight for each channel of each image, from the means of all channels (DeepLearningExamples: two linear layers)."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.squeeze = nn.Linear(channels, squeezed)
        self.expand = nn.Linear(squeezed, channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.expand(self.relu(self.squeeze(x.mean([2, 3])))).sigmoid().unsqueeze(2).unsqueeze(3)


class Bottleneck(nn.Module):
    """1x1, 3x3 (strided, grouped), 1x1 convolutions and a shortcut: the v1.5 block."""

    def __init__(self, channels: int, width: int, out: int, stride: int, groups: int, squeezes: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.squeeze = SqueezeAndExcitation(out, 16) if squeezes else None
        self.downsample = None
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        shortcut = x if self.downsample is None else self.downsample(x)
        if self.squeeze is None:
            y += shortcut
        else:
            y = torch.addcmul(shortcut, y, self.squeeze(y), value=1)
        return self.relu(y)


class ResNet(nn.Module):
    """ResNet of bottlenecks; torchvision's and DeepLearningExamples' run the same layers."""

    def __init__(self, depths: tuple[int, ...], widths: tuple[int, ...], expansion: int, groups: int,
                 classes: int = 1000, squeezes: bool = False) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        blocks, channels = [], 64
        for stage, (depth, width) in enumerate(zip(depths, widths)):
            for i in range(depth):
                stride = 2 if stage > 0 and i == 0 else 1
                blocks.append(Bottleneck(channels, width, width * expansion, stride, groups, squeezes))
                channels = width * expansion
        self.layers = nn.Sequential(*blocks)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        return self.fc(self.avgpool(self.layers(x)).flatten(1))


def resnet50() -> ResNet:
    return ResNet((3, 4, 6, 3), (64, 128, 256, 512), 4, 1)


def resnext101_32x4d() -> ResNet:
    return ResNet((3, 4, 23, 3), (128, 256, 512, 1024), 2, 32)


def se_resnext101_32x4d() -> ResNet:
    return ResNet((3, 4, 23, 3), (128, 256, 512, 1024), 2, 32, squeezes=True)


class WideBlock(nn.Module):
    """BatchNorm, ReLU, convolution, dropout, BatchNorm, ReLU, strided convolution; convolutions have a bias."""

    def __init__(self, channels: int, width: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, width, 3, padding=1)
        self.dropout = nn.Dropout(dropout)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1)
        same = stride == 1 and channels == width
        self.shortcut = nn.Identity() if same else nn.Conv2d(channels, width, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.dropout(self.conv1(F.relu(self.bn1(x))))
        y = self.conv2(F.relu(self.bn2(y)))
        y += self.shortcut(x)
        return y


class WideResNet(nn.Module):
    """WRN-28-10 of the apex CIFAR experiment: 3 stages of 4 blocks."""

    def __init__(self, blocks: int = 4, widths: tuple[int, ...] = (160, 320, 640), dropout: float = 0.3) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        stages, channels = [], 16
        for stage, width in enumerate(widths):
            for i in range(blocks):
                stages.append(WideBlock(channels, width, 2 if stage > 0 and i == 0 else 1, dropout))
                channels = width
        self.layers = nn.Sequential(*stages)
        self.bn1 = nn.BatchNorm2d(channels, momentum=0.9)
        self.linear = nn.Linear(channels, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.layers(self.conv1(x))))
        return self.linear(F.avg_pool2d(x, 8).flatten(1))


class GhostBatchNorm(nn.BatchNorm2d):
    """Normalises 16 parts of the batch apart, by folding them into the channels; its weight is frozen."""

    def __init__(self, channels: int, splits: int = 16) -> None:
        super().__init__(channels)
        self.splits = splits
        self.weight.requires_grad = False
        self.running_mean = torch.zeros(channels * splits)
        self.running_var = torch.ones(channels * splits)

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        y = F.batch_norm(x.view(-1, c * self.splits, h, w), self.running_mean, self.running_var,
                         self.weight.repeat(self.splits), self.bias.repeat(self.splits), True, self.momentum, self.eps)
        return y.view(n, c, h, w)


def celu_block(channels: int, out: int, kernel: int = 3, pool: bool = False) -> nn.Sequential:
    """Convolution, maybe a 2x2 max pool, ghost BatchNorm, CELU."""
    pools = [nn.MaxPool2d(2)] if pool else []
    conv = nn.Conv2d(channels, out, kernel, padding=kernel // 2, bias=False)
    return nn.Sequential(conv, *pools, GhostBatchNorm(out), nn.CELU(alpha=0.3))


class BagOfTricksResNet(nn.Module):
    """cifar10-fast-simple's network, behind a frozen 3x3 whitening convolution of 27 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.whiten = nn.Conv2d(3, 27, 3, padding=1, bias=False)
        self.whiten.weight.requires_grad = False
        self.head = nn.Sequential(celu_block(27, 64, kernel=1), celu_block(64, 128, pool=True))
        self.residual1 = nn.Sequential(celu_block(128, 128), celu_block(128, 128))
        self.down = nn.Sequential(celu_block(128, 256, pool=True), celu_block(256, 512, pool=True))
        self.residual2 = nn.Sequential(celu_block(512, 512), celu_block(512, 512))
        self.pool = nn.MaxPool2d(4, 4)
        self.linear = nn.Linear(512, 10, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.head(self.whiten(x))
        x = self.down(x + self.residual1(x))
        x = self.pool(x + self.residual2(x))
        return 0.125 * self.linear(x.reshape(x.size(0), x.size(1)))


class AirbenchGroup(nn.Module):
    """3x3 convolution, max pool, BatchNorm, GELU, 3x3 convolution, BatchNorm, GELU; only BatchNorm has a bias."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, padding="same", bias=False)
        self.pool = nn.MaxPool2d(2)
        self.norm1 = nn.BatchNorm2d(out, eps=1e-12, momentum=0.4)
        self.conv2 = nn.Conv2d(out, out, 3, padding="same", bias=False)
        self.norm2 = nn.BatchNorm2d(out, eps=1e-12, momentum=0.4)
        self.activ = nn.GELU()
        self.norm1.weight.requires_grad = False
        self.norm2.weight.requires_grad = False

    def forward(self, x: Tensor) -> Tensor:
        x = self.activ(self.norm1(self.pool(self.conv1(x))))
        return self.activ(self.norm2(self.conv2(x)))


class Airbench94(nn.Module):
    """airbench94's network: a frozen 2x2 whitening convolution (with a bias) and three groups."""

    def __init__(self) -> None:
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2)
        self.whiten.weight.requires_grad = False
        self.groups = nn.Sequential(nn.GELU(), AirbenchGroup(24, 64), AirbenchGroup(64, 256), AirbenchGroup(256, 256),
                                    nn.MaxPool2d(3))
        self.linear = nn.Linear(256, 10, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.groups(self.whiten(x))
        return self.linear(x.view(x.size(0), -1)) * (1 / 9)

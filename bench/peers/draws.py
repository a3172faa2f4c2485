"""The lessons' own random numbers and orders, number for number: lessons/10_parallel_loading/{sample_random,epoch_plan,
random_resized_crop}.h, lessons/13_sharded_stream/record_stream.h and lessons/16_batching/image_views.h."""

import itertools
import math

MASK, STEP = 2**64 - 1, 0x9E3779B97F4A7C15


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return (z ^ (z >> 31)) + STEP & MASK


class SampleRandom:
    """SplitMix64, begun from seed, epoch and sample."""

    def __init__(self, seed, epoch, sample):
        self.state = mix(mix(mix(seed) + epoch & MASK) + sample & MASK)

    def number(self):
        self.state = self.state + STEP & MASK
        return mix(self.state)

    def uniform(self, low=0.0, high=1.0):
        return low + (high - low) * ((self.number() >> 11) * 2.0**-53)

    def below(self, n):
        while (number := self.number()) < (2**64 - n) % n:
            pass
        return number % n


def epoch_order(size, seed, epoch):
    """0 to size - 1 in the shuffled order of an epoch."""
    order, random = list(range(size)), SampleRandom(seed, epoch, -1)
    for i in range(size - 1, 0, -1):
        j = random.below(i + 1)
        order[i], order[j] = order[j], order[i]
    return order


def batches_of_samples(size, batch, seed):
    """Batch after batch of (epoch, sample), without an end; what fills no batch is left out of its epoch."""
    for epoch in itertools.count():
        order = epoch_order(size, seed, epoch)
        for first in range(0, size - batch + 1, batch):
            yield [(epoch, sample) for sample in order[first:first + batch]]


def record_order(size, index, count, buffer, seed, epoch):
    """Every count-th number from index onwards, mixed by a buffer."""
    random, numbers = SampleRandom(seed, epoch, -1 - index), iter(range(index, size, count))
    waiting = list(itertools.islice(numbers, buffer))
    while waiting:
        at = random.below(len(waiting))
        yield waiting[at]
        following = next(numbers, None)
        if following is None:
            waiting[at] = waiting[-1]
            waiting.pop()
        else:
            waiting[at] = following


def rounded(x):
    return math.floor(x + 0.5)  # as std::lround does for positive numbers


def random_crop(height, width, random):
    """top, left, height, width, flip."""
    flip = random.uniform() < 0.5
    for _ in range(10):
        wanted = height * width * random.uniform(0.25, 1)
        aspect = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = rounded(math.sqrt(wanted * aspect)), rounded(math.sqrt(wanted / aspect))
        if 1 <= w <= width and 1 <= h <= height:
            return random.below(height - h + 1), random.below(width - w + 1), h, w, flip
    aspect = width / height
    allowed = min(max(aspect, 3 / 4), 4 / 3)
    w = width if aspect <= allowed else max(1, rounded(height * allowed))
    h = height if aspect >= allowed else max(1, rounded(width / allowed))
    return (height - h) // 2, (width - w) // 2, h, w, flip


def random_view(height, width, side, random):
    """top, left, flip of a square."""
    flip = random.uniform() < 0.5
    top = random.below(height - side + 1)
    return top, random.below(width - side + 1), flip

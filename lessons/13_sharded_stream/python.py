"""Lesson 13 in PyTorch; tests/parity/twins.py holds its losses against those of the C++ program."""

# region sharded
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __init__(self, read):
        self.read = read  # read(index, count) yields the samples of one of `count` shards

    def __iter__(self):  # in a process of its own for each worker: without shards a sample comes num_workers times
        worker = get_worker_info()  # None in the main process, with num_workers=0
        index, count = (worker.id, worker.num_workers) if worker else (0, 1)
        # On several ranks: index + rank * count of world_size * count.
        return self.read(index, count)


def make_loader(stream, batch):  # shuffle=True is an error here: shuffle in read(), with a buffer
    return DataLoader(stream, batch_size=batch, drop_last=True, num_workers=2)  # drop_last: in each worker
# endregion


# DataLoader takes batches from its workers in turn. Two shards are read in the same order by the lesson's loader.
TWINS = [{"case": "decoded", "technique": "2 workers", "settings": {"batch": 16, "channels": 4, "shards": 2}}]


def train(workloads, twin, settings, seed):
    import draws
    images, labels = workloads.fashion_mnist()
    work = workloads.ConvNetTraining(settings, seed)

    def read(index, count):
        for i in draws.record_order(len(images), index, count, settings["buffer"], seed, epoch=0):
            yield images[i], labels[i]

    for images_of_batch, labels_of_batch in make_loader(Stream(read), settings["batch"]):
        yield work.update(workloads.normalise_images(images_of_batch), labels_of_batch)

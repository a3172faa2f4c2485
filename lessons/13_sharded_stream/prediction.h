#pragma once
// Workers overlap the loading of a stream with training as lesson 10's do: its prediction, overlapped(workers).

#include "lessons/10_parallel_loading/prediction.h"

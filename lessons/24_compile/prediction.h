#pragma once
// Lesson 24 predicts no number: how much of a step is elementwise says what fusing can save, and the surveys count
// that.

#include "common/harness/lesson.h"

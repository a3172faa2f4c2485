#pragma once
// What Trial::shared() has cost so far.

namespace tenfold {

/// How long Trial::shared() has made things in this process, in seconds.
double seconds_making_shared();

}  // namespace tenfold

#pragma once
// Blocks that run together and reach each other's shared memory: part of the microscope's inside.

#include "common/microscope/engine.h"

namespace tenfold::simt {

/// The blocks of a cluster that is about to run, of which the first is number `first` of the grid; none has begun.
void begin_cluster(uint64_t first);
/// Gives the turn to a block of the cluster: the engine's fields and the static shared memory are now its own.
void turn_to(size_t block);
/// " of block 1", or nothing for a block that is alone.
std::string of_block(size_t block);

/// The shared memory of a block that holds the address, guards included; null where none does.
Region* shared_region(uintptr_t address, size_t block);
/// An address in this block's shared memory as that of the same place in another's.
uintptr_t in_block(uintptr_t own, size_t block);
/// As an address of the shared window.
uint32_t window_of(uintptr_t address, size_t block);

/// The running thread touches shared memory of a block. False, and a fault, where that has ended or may not have begun.
/// `keep`: at its end the block must know of this access.
bool visit(size_t block, bool keep, uintptr_t pc);
/// All threads of the block that has its turn are done: faults for what is under way, and for visits that may still
/// come.
void end_block();

/// A thread that waits at the cluster's barrier may go on.
bool pass_cluster_barrier(Thread& thread);
/// A thread has ended, and nobody waits for it.
void leave_cluster_barrier(const Thread& thread);

}  // namespace tenfold::simt

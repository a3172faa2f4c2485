#pragma once
// What NCCL's collectives compute, on the bytes of a card that is not there.

#include <nccl.h>

#include <cstddef>

namespace tenfold::dry {

/// Bytes of an element; 0 for a type that is none of NCCL's.
size_t bytes_of(ncclDataType_t type);
const char* name_of(ncclDataType_t type);
const char* name_of(ncclRedOp_t operation);  ///< "sum", "avg", ...; "scaled sum" of one that a program has made

/// Whether elements of the type can be added here: those of 8 bits with a point cannot.
bool has_arithmetic(ncclDataType_t type);

/// into[i] = into[i] (operation) from[i], rounded to the type; ncclAvg adds.
void combine(void* into, const void* from, size_t count, ncclDataType_t type, ncclRedOp_t operation);
/// values[i] *= factor, rounded to the type.
void scale(void* values, size_t count, ncclDataType_t type, double factor);
/// One element as a number.
double number_at(const void* value, ncclDataType_t type);

}  // namespace tenfold::dry

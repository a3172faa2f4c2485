#include "common/dry_gpu/nccl/reduction.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tenfold::dry {
namespace {

/// Calls the function with a value of the type's own, which tells it apart. Types of 8 bits with a point are left out.
template <class Function>
void with_type(ncclDataType_t type, Function function) {
  switch (type) {
    case ncclInt8:
      return function(int8_t{});
    case ncclUint8:
      return function(uint8_t{});
    case ncclInt32:
      return function(int32_t{});
    case ncclUint32:
      return function(uint32_t{});
    case ncclInt64:
      return function(int64_t{});
    case ncclUint64:
      return function(uint64_t{});
    case ncclFloat16:
      return function(__half{});
    case ncclFloat32:
      return function(float{});
    case ncclFloat64:
      return function(double{});
    case ncclBfloat16:
      return function(__nv_bfloat16{});
    default:
      return;
  }
}

/// As what it is computed: 16 bits as 32, which the result is rounded from.
template <class Value>
auto wide(Value value) {
  if constexpr (std::is_same_v<Value, __half>) {
    return __half2float(value);
  } else if constexpr (std::is_same_v<Value, __nv_bfloat16>) {
    return __bfloat162float(value);
  } else {
    return value;
  }
}

template <class Value, class Wide>
Value narrow(Wide value) {
  if constexpr (std::is_same_v<Value, __half>) {
    return __float2half_rn(static_cast<float>(value));
  } else if constexpr (std::is_same_v<Value, __nv_bfloat16>) {
    return __float2bfloat16_rn(static_cast<float>(value));
  } else {
    return static_cast<Value>(value);
  }
}

template <class Wide>
Wide combined(Wide a, Wide b, ncclRedOp_t operation) {
  switch (operation) {
    case ncclProd:
      return a * b;
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return a + b;
  }
}

}  // namespace

size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

const char* name_of(ncclDataType_t type) {
  constexpr const char* kNames[] = {"int8",    "uint8",   "int32",   "uint32",   "int64",       "uint64",
                                    "float16", "float32", "float64", "bfloat16", "float8_e4m3", "float8_e5m2"};
  return bytes_of(type) == 0 ? "unknown" : kNames[type];
}

const char* name_of(ncclRedOp_t operation) {
  constexpr const char* kNames[] = {"sum", "prod", "max", "min", "avg"};
  return operation < ncclNumOps ? kNames[operation] : "scaled sum";
}

bool has_arithmetic(ncclDataType_t type) {
  return bytes_of(type) > 0 && type != ncclFloat8e4m3 && type != ncclFloat8e5m2;
}

void combine(void* into, const void* from, size_t count, ncclDataType_t type, ncclRedOp_t operation) {
  with_type(type, [&](auto of_type) {
    using Value = decltype(of_type);
    auto* const sums = static_cast<Value*>(into);
    const auto* const values = static_cast<const Value*>(from);
    for (size_t i = 0; i < count; ++i) {
      sums[i] = narrow<Value>(combined<decltype(wide(of_type))>(wide(sums[i]), wide(values[i]), operation));
    }
  });
}

void scale(void* values, size_t count, ncclDataType_t type, double factor) {
  with_type(type, [&](auto of_type) {
    using Value = decltype(of_type);
    auto* const scaled = static_cast<Value*>(values);
    for (size_t i = 0; i < count; ++i) {
      if constexpr (std::is_integral_v<Value>) {
        scaled[i] = static_cast<Value>(static_cast<double>(scaled[i]) * factor);  // towards zero, as a division
      } else {
        using Wide = decltype(wide(of_type));
        scaled[i] = narrow<Value>(wide(scaled[i]) * static_cast<Wide>(factor));
      }
    }
  });
}

double number_at(const void* value, ncclDataType_t type) {
  double number = 0;
  with_type(type, [&](auto of_type) {
    std::memcpy(&of_type, value, sizeof of_type);
    number = static_cast<double>(wide(of_type));
  });
  return number;
}

}  // namespace tenfold::dry

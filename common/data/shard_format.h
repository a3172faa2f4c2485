#pragma once
// The bytes of a shard's header and index; shared by reader and writer, not for others.

#include <array>
#include <cstdint>
#include <cstring>

#include "common/data/shard.h"

namespace tenfold {

inline constexpr std::array<char, 8> kShardMagic = {'t', 'e', 'n', 'f', 's', 'h', 'r', 'd'};
inline constexpr uint64_t kShardVersion = 1;
inline constexpr uint64_t kShardAlignment = 64;
inline constexpr size_t kShardHeaderBytes = 128, kShardEntryBytes = 32;

/// Places of the 64-bit numbers in the header.
enum HeaderField : size_t {
  kVersion = 8,
  kFileBytes = 16,
  kKind = 24,
  kHeight = 32,
  kWidth = 40,
  kClassCount = 48,
  kRecordCount = 56,
  kIndexOffset = 64,
  kStringsOffset = 72,
  kStringsBytes = 80,
  kTablesChecksum = 120,  ///< CRC-32 of the header before this field, of the index and of the strings
};

template <class T>
void store_little(uint8_t* target, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) target[i] = static_cast<uint8_t>(value >> (8 * i));
}

template <class T>
T load_little(const uint8_t* source) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<T>(source[i]) << (8 * i));
  return value;
}

/// CRC-32 (ISO 3309, as in gzip and PNG), continued from `before`.
uint32_t checksum(std::span<const uint8_t> bytes, uint32_t before = 0);

inline uint64_t aligned(uint64_t offset) { return (offset + kShardAlignment - 1) / kShardAlignment * kShardAlignment; }

}  // namespace tenfold

#pragma once
// Published training steps, which predictions of several origins are held against.

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tenfold {

inline constexpr const char* kPublishedRows = "docs/published_steps/published.json";

/// In which a step makes most of its products.
inline constexpr std::array<const char*, 3> kArithmetics = {"fp32", "TF32", "16 bits"};

/// A row of kPublishedRows.
struct PublishedRow {
  const nlohmann::json& published;

  std::string text(const char* key) const { return published.at(key); }
  std::string card() const { return text("card") == "A100-40" ? "A100 40 GB" : text("card"); }
  /// One of kArithmetics.
  std::string arithmetic() const;
  /// How many times as fast a step is whose value is this one, in the row's own unit.
  double faster(const nlohmann::json& value, const nlohmann::json& than) const;
};

/// Throws FileError on what is no JSON.
nlohmann::json read_rows(const std::filesystem::path& file);

/// That with this id; null where there is none.
const nlohmann::json* row_of(const nlohmann::json& rows, const std::string& id);

/// How many of these ratios are off by at most this factor: "4 of 5".
std::string within(const std::vector<double>& ratios, double factor);

}  // namespace tenfold

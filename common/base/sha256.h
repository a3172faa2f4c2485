#pragma once
// SHA-256 of a text. Source: FIPS 180-4, sections 4.1.2, 5 and 6.2.

#include <string>
#include <string_view>

namespace tenfold {

/// The digest as 64 lower-case hexadecimal digits.
std::string sha256(std::string_view data);

}  // namespace tenfold

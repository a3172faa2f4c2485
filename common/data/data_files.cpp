#include "common/data/data_files.h"
#include <zlib.h>
#include "common/base/files.h"
#include "common/base/sha256.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

namespace tenfold {
namespace fs = std::filesystem;
namespace {

/// The digest that SHA256SUMS records for a file; empty when it does not list it.
std::string recorded_digest(const std::string& sums, const std::string& name) {
  std::istringstream lines(sums);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() > 66 && line.compare(66, std::string::npos, name) == 0) return line.substr(0, 64);
  }
  return "";
}

}  // namespace

fs::path data_folder() { return cache_folder() / "data"; }

std::string read_file(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) throw DataError(path.string() + ": is missing; to fix: ./tenfold setup");
  if (!fs::is_regular_file(path, error))
    throw DataError(path.string() + ": is not a file; to fix: remove it, then ./tenfold setup");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text;
  if (in) {
    text.resize(fs::file_size(path, error));
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  }
  if (!in) {
    const char* reason = errno != 0 ? std::strerror(errno) : "it shrank meanwhile";
    throw DataError(path.string() + ": cannot be read (" + reason + "); to fix: check its permissions and the disk");
  }
  return text;
}

std::string read_data_file(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) fail_data_file(path, "is missing");
  const fs::path sums = path.parent_path() / "SHA256SUMS";
  if (!fs::exists(sums, error)) fail_data_file(sums, "is missing");
  std::string text = read_file(path);
  const std::string digest = recorded_digest(read_file(sums), path.filename().string());
  if (digest.empty()) fail_data_file(sums, "does not list " + path.filename().string());
  if (sha256(text) != digest)
    fail_data_file(path, "is truncated or altered (its SHA-256 is not the one in SHA256SUMS)");
  return text;
}

void fail_data_file(const fs::path& path, const std::string& what) {
  std::error_code ignored;  // the message is due either way
  const fs::path data = data_folder();
  if (path.parent_path().parent_path() == data) fs::remove(data / ".complete", ignored);
  throw DataError(path.string() + ": " + what + "; to fix: ./tenfold setup");
}

std::string gunzip(std::string_view compressed, const std::string& name) {
  const auto damaged = [&](const char* what) { return DataError(name + ": " + what + "; to fix: ./tenfold setup"); };
  if (compressed.size() > std::numeric_limits<uInt>::max()) throw damaged("is too large for a gzip data file");
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK)
    throw DataError(name + ": zlib could not start; to fix: free some memory");
  struct End {
    z_stream& stream;
    ~End() { inflateEnd(&stream); }
  } end{stream};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));  // zlib's interface predates const
  stream.avail_in = static_cast<uInt>(compressed.size());

  std::string out;
  size_t size = 0;
  int status = Z_OK;
  do {
    if (status == Z_STREAM_END && inflateReset(&stream) != Z_OK) throw damaged("is no gzip file");  // the next member
    do {
      if (out.size() - size < 65536) out.resize(std::max<size_t>(2 * out.size(), 262144));
      stream.next_out = reinterpret_cast<Bytef*>(out.data() + size);
      const uInt room = static_cast<uInt>(std::min<size_t>(out.size() - size, std::numeric_limits<uInt>::max()));
      stream.avail_out = room;
      status = inflate(&stream, Z_NO_FLUSH);
      size += room - stream.avail_out;
      if (status == Z_BUF_ERROR) throw damaged("is a truncated gzip file");
      if (status != Z_OK && status != Z_STREAM_END) throw damaged("is no gzip file, or a damaged one");
    } while (status != Z_STREAM_END);
  } while (stream.avail_in > 0);
  out.resize(size);
  return out;
}

}  // namespace tenfold

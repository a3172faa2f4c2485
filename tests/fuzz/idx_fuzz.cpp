// Any bytes as an idx file, and as a gzip file: a DataError of one line, or exactly as much data as the header says.
#include <zlib.h>
#include "common/data/data_files.h"
#include "common/data/idx.h"

#include "fuzz.h"

namespace {

using tenfold::fuzz::reads;
using tenfold::fuzz::require;

void read_idx(const std::string& file) {
  reads<tenfold::DataError>([&] {
    const tenfold::IdxHeader header = tenfold::parse_idx(file, "x");
    uint64_t values = 1;
    for (const int64_t size : header.sizes) {
      require(size >= 1, "every dimension has a value");
      values *= static_cast<uint64_t>(size);
    }
    require(header.sizes.size() <= 4 && header.data_offset + values == file.size(), "the data fill the file");
  });
}

/// One gzip member, unpacked by zlib in one go.
std::string packed(const std::string& text) {
  std::string out(text.size() + text.size() / 100 + 100, '\0');
  z_stream stream{};
  require(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib starts");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // zlib's interface predates const
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib packs");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string file = tenfold::fuzz::text_of({data, size});
  read_idx(file);
  reads<tenfold::DataError>([&] { read_idx(tenfold::gunzip(file, "x")); });
  const std::string once = packed(file);
  require(tenfold::gunzip(once, "x") == file, "gunzip undoes gzip");
  require(tenfold::gunzip(once + once, "x") == file + file, "two members follow each other");
  return 0;
}

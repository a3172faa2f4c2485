#include "common/models/token_stream.h"
#include "common/data/data_files.h"
#include "common/data/shakespeare.h"
#include "common/data/tokenizer.h"

#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>

namespace tenfold {
namespace {

std::vector<int64_t> encode_works(Encoding encoding, bool train) {
  std::vector<int64_t> ids;
  const std::vector<Book> books = shakespeare(train);
  if (encoding == Encoding::characters) {
    for (const Book& book : books) {
      ids.insert(ids.end(), book.text.begin(), book.text.end());
      ids.push_back(0);
    }
  } else {
    const Gpt2Tokenizer tokenizer;
    for (const Book& book : books) {
      const std::vector<int32_t> encoded = tokenizer.encode(book.text);
      ids.insert(ids.end(), encoded.begin(), encoded.end());
      ids.push_back(Gpt2Tokenizer::end_of_text);
    }
  }
  return ids;
}

}  // namespace

Encoding encoding_named(std::string_view name) {
  if (name == "characters") return Encoding::characters;
  if (name == "gpt2") return Encoding::gpt2;
  throw std::invalid_argument("no encoding is named '" + std::string(name) + "'; there are: characters, gpt2");
}

int64_t vocabulary_size(Encoding encoding) {
  return encoding == Encoding::characters ? 128 : Gpt2Tokenizer::vocabulary_size;
}

torch::Tensor shakespeare_tokens(Encoding encoding, bool train) {
  // Every variant of a lesson asks again.
  static std::mutex mutex;
  static std::map<std::tuple<std::filesystem::path, Encoding, bool>, torch::Tensor> encoded;
  const auto key = std::make_tuple(data_folder(), encoding, train);
  const std::lock_guard lock(mutex);
  const auto found = encoded.find(key);
  if (found != encoded.end()) return found->second;
  const auto ids = std::make_shared<std::vector<int64_t>>(encode_works(encoding, train));
  return encoded[key] =
             torch::from_blob(ids->data(), {static_cast<int64_t>(ids->size())}, [ids](void*) {}, torch::kInt64);
}

TextBatch sample_batch(const torch::Tensor& tokens, int64_t batch, int64_t length, torch::Generator generator) {
  const auto need = [](bool holds, const std::string& what) {
    if (!holds) throw std::invalid_argument("sample_batch: " + what);
  };
  need(tokens.dim() == 1 && tokens.scalar_type() == torch::kInt64, "tokens must be one row of int64 ids");
  need(batch >= 1 && length >= 1, "batch and length must be at least 1");
  need(tokens.size(0) > length, "windows of " + std::to_string(length) + " and a target need more than " +
                                    std::to_string(tokens.size(0)) + " tokens");
  const torch::Tensor starts = torch::randint(tokens.size(0) - length, {batch, 1}, std::move(generator), torch::kInt64);
  const torch::Tensor places = starts.to(tokens.device()) + torch::arange(length, tokens.options());  // (B, T)
  return {tokens.take(places), tokens.take(places + 1)};
}

}  // namespace tenfold

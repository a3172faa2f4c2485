#pragma once
// Which model of time a dry GPU's speeds were made with. A result names its commit, and the commit has the model.

#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace tenfold {

/// SHA-256 over the tokens (code_tokens.h) of what decides how long a dry GPU takes: the sources of common/dry_gpu, but
/// for those that are asleep where time is modelled (arithmetic/, and what watches streams' order), and the cards'
/// ceilings, common/machine/gpu_ceilings. Files' names and places do not count. Empty in a tree without a model. Throws
/// FileError on an unreadable file.
std::string time_model_hash(const std::filesystem::path& root);

/// The same of a commit of the tree's history; empty where the history does not have it, or there is no git.
std::string time_model_hash(const std::filesystem::path& root, const std::string& commit);

/// Where the hashes of results' commits are kept for clones that have a part of the history, or none.
inline constexpr const char* kTimeModels = "docs/time_models.json";

/// {commit: time_model_hash(root, commit)}; of a commit that the history does not have, what kTimeModels says. Commits
/// that neither has are left out; all are in a tree without a model. Throws FileError on an unreadable file.
std::map<std::string, std::string> time_models(const std::filesystem::path& root, const std::set<std::string>& commits);

/// Of these commits those whose model, by `models`, is not this tree's, or not known. None in a tree without a model.
std::set<std::string> earlier_models(const std::filesystem::path& root, std::set<std::string> commits,
                                     const std::map<std::string, std::string>& models);

}  // namespace tenfold

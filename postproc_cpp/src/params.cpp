#include "wardarm/params.hpp"

#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>

namespace wardarm {

Params Params::parse(const std::string& text, const std::string& origin) {
  Params params;
  params.origin_ = origin;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string where = origin + ":" + std::to_string(number);
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) throw ParamsError(where + ": expected 'key = numbers'");
    std::istringstream head(line.substr(0, equals));
    std::string key;
    head >> key;
    std::istringstream tail(line.substr(equals + 1));
    std::vector<double> values;
    for (std::string word; tail >> word;) {
      double value = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
      if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(value)) {
        throw ParamsError(where + ": " + key + ": '" + word + "' is not a finite number");
      }
      values.push_back(value);
    }
    if (key.empty() || values.empty()) throw ParamsError(where + ": expected 'key = numbers'");
    if (!params.values_.emplace(key, std::move(values)).second)
      throw ParamsError(where + ": " + key + " appears twice");
    params.order_.push_back(key);
  }
  return params;
}

Params Params::load(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw ParamsError(path + ": cannot be read; 'wardarm run' writes it from the configuration");
  std::ostringstream text;
  text << file.rdbuf();
  return parse(text.str(), path);
}

std::span<const double> Params::numbers(const std::string& key, std::size_t count) const {
  const auto found = values_.find(key);
  if (found == values_.end()) throw ParamsError(origin_ + ": " + key + " is missing");
  if (found->second.size() != count) {
    throw ParamsError(origin_ + ": " + key + " has " + std::to_string(found->second.size()) + " numbers, expected " +
                      std::to_string(count));
  }
  return found->second;
}

std::vector<std::string> Params::keys_after(const std::string& start) const {
  std::vector<std::string> keys;
  for (const std::string& key : order_) {
    if (key.starts_with(start)) keys.push_back(key.substr(start.size()));
  }
  return keys;
}

}  // namespace wardarm

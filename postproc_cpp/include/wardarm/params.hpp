// The parameter files that the supervisor writes: one `key = number number ...` a line, `#` starts a comment.
#pragma once
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace wardarm {

// A parameter file cannot be used; the text names file, key and what is wrong.
class ParamsError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Params {
 public:
  static Params parse(const std::string& text, const std::string& origin);
  static Params load(const std::string& path);

  // The numbers of a key. Throws ParamsError if it is missing or has another count.
  [[nodiscard]] std::span<const double> numbers(const std::string& key, std::size_t count) const;
  [[nodiscard]] double number(const std::string& key) const { return numbers(key, 1)[0]; }
  // Keys that start with `start`, in the file's order, without it.
  [[nodiscard]] std::vector<std::string> keys_after(const std::string& start) const;

 private:
  std::string origin_;
  std::vector<std::string> order_;
  std::map<std::string, std::vector<double>> values_;
};

}  // namespace wardarm

// What both programs share: the photograph's numbers come in, the three likeliest labels go out.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

inline std::vector<float> read_floats(const char* path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<float> numbers(file ? size_t(file.tellg()) / sizeof(float) : 0);
  file.seekg(0).read(reinterpret_cast<char*>(numbers.data()), std::streamsize(numbers.size() * sizeof(float)));
  return numbers;
}

inline void print_top3(const float* scores, size_t count, const char* labels_path) {
  std::vector<std::string> labels;
  std::ifstream file(labels_path);
  for (std::string line; std::getline(file, line);) labels.push_back(line);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t(0));
  std::partial_sort(order.begin(), order.begin() + 3, order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += std::exp(double(scores[i]) - scores[order[0]]);
  for (size_t i = 0; i < 3; ++i)
    std::printf("%4.1f%%  %s\n", 100 * std::exp(double(scores[order[i]]) - scores[order[0]]) / sum,
                order[i] < labels.size() ? labels[order[i]].c_str() : "(no label)");
}

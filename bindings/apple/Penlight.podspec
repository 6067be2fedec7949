# The same for CocoaPods, from the folder that it lies in: pod 'Penlight', :path => 'dist'
Pod::Spec.new do |s|
  s.name = 'Penlight'
  s.version = '@VERSION@'
  s.summary = 'Runs PyTorch models that Penlight made small'
  s.homepage = 'https://pypi.org/project/penlight/'
  s.license = { :type => 'BSD-3-Clause' }
  s.author = 'The Penlight authors'
  s.source = { :path => '.' }
  s.platform = :ios, '@IOS@'
  s.vendored_frameworks = 'Penlight.xcframework'
  s.source_files = 'PenlightObjC/**/*.{h,mm}'
  s.public_header_files = 'PenlightObjC/include/*.h'
  s.preserve_paths = 'cpp', 'torch'
  s.libraries = 'c++'
  s.requires_arc = true
  s.pod_target_xcconfig = { 'CLANG_CXX_LANGUAGE_STANDARD' => 'c++17', 'HEADER_SEARCH_PATHS' => "\"#{__dir__}/cpp\"" }
  # penlight.hpp, and PyTorch's names for it: <torch/script.h>, <LibTorch-Lite/LibTorch-Lite.h>
  s.user_target_xcconfig = { 'HEADER_SEARCH_PATHS' => "\"#{__dir__}/cpp\" \"#{__dir__}/torch\"" }
end

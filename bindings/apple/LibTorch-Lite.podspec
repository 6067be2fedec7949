# PyTorch's pod of this name, so that a Podfile changes in one place: pod 'LibTorch-Lite', :path => 'dist'
Pod::Spec.new do |s|
  s.name = 'LibTorch-Lite'
  s.version = '@VERSION@'
  s.summary = "Penlight under the name that PyTorch Mobile's library had"
  s.homepage = 'https://pypi.org/project/penlight/'
  s.license = { :type => 'BSD-3-Clause' }
  s.author = 'The Penlight authors'
  s.source = { :path => '.' }
  s.platform = :ios, '@IOS@'
  s.dependency 'Penlight', '@VERSION@'
end

#import "Labels.h"
#import "Pixels.h"
#import "TorchModule.h"
#import "UIImage+Pixels.h"

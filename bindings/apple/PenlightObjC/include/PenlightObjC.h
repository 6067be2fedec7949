// Penlight for Objective-C: all of it.
#import "PENModule.h"
#import "PENTensor.h"
#import "TorchModule.h"

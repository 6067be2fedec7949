#import <UIKit/UIKit.h>

// Runs the benchmark once and shows its lines.
@interface ViewController : UIViewController
@end

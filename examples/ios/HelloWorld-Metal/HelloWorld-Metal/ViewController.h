#import <UIKit/UIKit.h>

// Shows a photograph, the three classes that a model finds likeliest, and where it ran.
@interface ViewController : UIViewController
@end

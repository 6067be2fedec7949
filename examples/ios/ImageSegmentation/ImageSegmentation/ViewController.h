#import <UIKit/UIKit.h>

// Shows a photograph, what is on it in colours, and the names of it.
@interface ViewController : UIViewController
@end

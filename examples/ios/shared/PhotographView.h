// A photograph with text below it.
#import <UIKit/UIKit.h>

NS_ASSUME_NONNULL_BEGIN

@interface PhotographView : UIStackView
@property(nonatomic, readonly) UIImageView* photograph;
@property(nonatomic, readonly) UILabel* text;
@end

NS_ASSUME_NONNULL_END

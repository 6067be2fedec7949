#import "PhotographView.h"

@implementation PhotographView

- (instancetype)initWithFrame:(CGRect)frame {
  self = [super initWithFrame:frame];
  if (self) {
    _photograph = [[UIImageView alloc] init];
    _photograph.contentMode = UIViewContentModeScaleAspectFit;
    _text = [[UILabel alloc] init];
    _text.numberOfLines = 0;
    self.axis = UILayoutConstraintAxisVertical;
    self.backgroundColor = [UIColor systemBackgroundColor];
    self.layoutMargins = UIEdgeInsetsMake(64, 16, 64, 16);
    self.layoutMarginsRelativeArrangement = YES;
    [self addArrangedSubview:_photograph];
    [self addArrangedSubview:_text];
  }
  return self;
}

@end

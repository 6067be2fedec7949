// Of UIKit and Core Graphics what the iOS apps name, so that a compiler without Apple's SDK checks them. Nothing is behind it.
#pragma once
#import <Foundation/Foundation.h>
#include <math.h>

#define CF_RETURNS_RETAINED
#define NS_VALID_UNTIL_END_OF_SCOPE __attribute__((objc_precise_lifetime))

typedef NSRect CGRect;
typedef NSSize CGSize;
typedef struct CGContext* CGContextRef;
typedef struct CGImage* CGImageRef;
typedef struct CGColorSpace* CGColorSpaceRef;
typedef uint32_t CGBitmapInfo;
enum { kCGImageAlphaNoneSkipLast = 5 };
#define CGRectMake NSMakeRect
#ifdef __cplusplus
extern "C" {
#endif
CGColorSpaceRef CGColorSpaceCreateDeviceRGB(void);
void CGColorSpaceRelease(CGColorSpaceRef);
CGContextRef CGBitmapContextCreate(void*, size_t, size_t, size_t, size_t, CGColorSpaceRef, uint32_t);
CGImageRef CGBitmapContextCreateImage(CGContextRef);
void CGContextTranslateCTM(CGContextRef, CGFloat, CGFloat);
void CGContextScaleCTM(CGContextRef, CGFloat, CGFloat);
void CGContextRelease(CGContextRef);
void CGImageRelease(CGImageRef);
void UIGraphicsPushContext(CGContextRef);
void UIGraphicsPopContext(void);
int UIApplicationMain(int, char*[], NSString*, NSString*);
#ifdef __cplusplus
}
#endif

typedef struct UIEdgeInsets {
  CGFloat top, left, bottom, right;
} UIEdgeInsets;
static inline UIEdgeInsets UIEdgeInsetsMake(CGFloat top, CGFloat left, CGFloat bottom, CGFloat right) {
  return (UIEdgeInsets){top, left, bottom, right};
}
typedef enum { UIViewContentModeScaleAspectFit = 1 } UIViewContentMode;
typedef enum { UILayoutConstraintAxisVertical = 1 } UILayoutConstraintAxis;

@interface UIColor : NSObject
+ (UIColor*)systemBackgroundColor;
@end
@interface UIImage : NSObject
@property(readonly) CGSize size;
+ (UIImage*)imageNamed:(NSString*)name;
+ (UIImage*)imageWithCGImage:(CGImageRef)image;
- (void)drawInRect:(CGRect)rect;
@end
@interface UIResponder : NSObject
@end
@interface UIView : UIResponder
- (instancetype)initWithFrame:(CGRect)frame;
@property(nonatomic) UIViewContentMode contentMode;
@property(nonatomic, copy) UIColor* backgroundColor;
@property(nonatomic) UIEdgeInsets layoutMargins;
@end
@interface UIImageView : UIView
@property(nonatomic, strong) UIImage* image;
@end
@interface UILabel : UIView
@property(nonatomic, copy) NSString* text;
@property(nonatomic) NSInteger numberOfLines;
@end
@interface UITextView : UIView
@property(nonatomic, copy) NSString* text;
@property(nonatomic) BOOL editable;
@end
@interface UIStackView : UIView
@property(nonatomic) UILayoutConstraintAxis axis;
@property(nonatomic, getter=isLayoutMarginsRelativeArrangement) BOOL layoutMarginsRelativeArrangement;
- (void)addArrangedSubview:(UIView*)view;
@end
@interface UIViewController : UIResponder
@property(nonatomic, strong) UIView* view;
- (void)loadView;
- (void)viewDidLoad;
@end

@class UISceneConnectionOptions, UIApplication;
@interface UIScene : UIResponder
@end
@interface UIWindowScene : UIScene
@end
@interface UISceneSession : NSObject
@property(nonatomic, readonly) NSString* role;
@end
@interface UISceneConfiguration : NSObject
- (instancetype)initWithName:(NSString*)name sessionRole:(NSString*)role;
@property(nonatomic) Class delegateClass;
@end
@protocol UIWindowSceneDelegate
@optional
- (void)scene:(UIScene*)scene willConnectToSession:(UISceneSession*)session options:(UISceneConnectionOptions*)options;
@end
@protocol UIApplicationDelegate
@end
@interface UIWindow : UIView
- (instancetype)initWithWindowScene:(UIWindowScene*)scene;
@property(nonatomic, strong) UIViewController* rootViewController;
- (void)makeKeyAndVisible;
@end

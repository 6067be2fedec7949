plugins {
    id("com.android.application")
}

android {
    namespace = "org.pytorch.vulkantest"
    compileSdk = 36

    defaultConfig {
        applicationId = "org.pytorch.vulkantest"
        minSdk = 21
        targetSdk = 36
        versionCode = 1
        versionName = "1.0"
    }
    buildTypes {
        release {
            isMinifyEnabled = true
            proguardFiles(getDefaultProguardFile("proguard-android-optimize.txt"))
        }
    }
    sourceSets["main"].java.srcDir("../../shared/java") // what the examples have in common
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_11
        targetCompatibility = JavaVersion.VERSION_11
    }
    androidResources {
        noCompress += "pen" // so that models are mapped where they lie in the package
    }
}

dependencies {
    implementation("org.pytorch:pytorch_android:0.1.0")
    implementation("org.pytorch:pytorch_android_torchvision:0.1.0")
}

plugins {
    id("com.android.application")
}

android {
    namespace = "org.pytorch.cameraclassification"
    compileSdk = 36

    defaultConfig {
        applicationId = "org.pytorch.cameraclassification"
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
    implementation("org.pytorch:penlight:0.1.0")
    implementation("androidx.activity:activity:1.9.3")
    // CameraX 1.4 is the last for Android 5
    implementation("androidx.camera:camera-camera2:1.4.2")
    implementation("androidx.camera:camera-lifecycle:1.4.2")
    implementation("androidx.camera:camera-view:1.4.2")
}
